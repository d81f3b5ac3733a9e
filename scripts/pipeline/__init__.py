"""The Python behind the scripts: it runs experiments with the plugin, from a clone of the project.

The plugin imports nothing from here. Run the modules by name: ``python scripts/run.py pipeline.<...>``.
"""
