"""The parts of import_tasks.py: one file per stage of an import."""
