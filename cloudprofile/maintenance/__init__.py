"""The maintenance of Shoots: its time, its updates, and its reports in the status and in Events. Pure."""
