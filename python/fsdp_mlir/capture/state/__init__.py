"""What Python holds from one step to the next, and what a step changes of it."""
