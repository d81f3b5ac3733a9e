"""The Python behind the scripts: it runs experiments with the plugin, from a clone of the project.

Nothing here is imported by the plugin, and no file is run by its path: ``PYTHONPATH=scripts python -m pipeline.<...>``.
"""
