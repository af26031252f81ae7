"""What the commands that serve a webhook share: sockets, an own certificate authority, supervised tasks."""
