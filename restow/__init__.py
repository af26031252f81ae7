"""The application: the ``restow`` command. It wires the rooms and decides nothing."""
