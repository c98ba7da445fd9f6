"""What a step is fed with: files, windows of files, and what a loader gives."""
