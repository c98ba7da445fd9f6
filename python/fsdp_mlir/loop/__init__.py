"""Steps of a plan inside a loop of the user's own."""
