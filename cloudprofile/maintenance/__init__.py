"""The maintenance of Shoots: when, which updates, and what the status and the Events say of them. Pure."""
