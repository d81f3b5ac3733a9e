"""Measures speed as ratios: candidates take turns in one process, and their times are divided round by round."""
