"""The application: the ``restow`` command. It connects the other packages and makes no decisions of its own."""
