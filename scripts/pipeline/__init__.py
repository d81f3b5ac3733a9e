"""The Python behind the scripts: it runs experiments with the plugin, from a clone of the project.

The plugin imports nothing from here. Run a command by the name of its module: ``python scripts/run.py pipeline <...>``.
"""
