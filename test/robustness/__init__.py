"""What broken plans, hostile files and any order of events may not do."""
