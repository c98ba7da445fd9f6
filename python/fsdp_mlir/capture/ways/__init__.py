"""The ways through a step that decides by values, and the one graph that they become."""
