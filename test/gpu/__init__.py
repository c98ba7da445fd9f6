"""What is run on a machine that has a GPU: README.md."""
