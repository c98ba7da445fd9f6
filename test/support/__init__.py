"""What the end-to-end tests share: the chain of programs, and PyTorch references."""
