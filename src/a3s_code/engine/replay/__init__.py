"""Running a recorded log once more (facts.md, *Fork and replay*): ``replay.replay`` says what came out the same."""
