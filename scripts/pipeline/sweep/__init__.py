"""Many trainings: the systems of a recipe with their seeds."""
