"""Pure work on text: encodings, cutting, editing, diffs. No file is touched here."""
