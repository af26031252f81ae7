"""The application: the ``restow`` command. It connects the other packages and makes no decisions of its own."""

__version__ = "0.1.0"
"""The release, as pyproject.toml has it: the metadata of the installed package take a command 12 ms of CPU to read."""
