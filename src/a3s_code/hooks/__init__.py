"""A host's hooks (extensions.md §1). In: registrations and events. Out: decisions, and handlers that were told."""
