"""`tools/dev bench`: step times and memory of this project and of PyTorch, side by side."""
