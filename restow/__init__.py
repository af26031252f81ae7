"""The application: the ``restow`` command and its demo. It wires the rooms and decides nothing."""
