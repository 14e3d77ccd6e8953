"""What import_tasks.py is made of: one stage of an import a file."""
