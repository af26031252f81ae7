"""The demo: the whole life of an API version on a real API server, from its first object to its removal.

``play`` sets the stage and ``journey`` tells the story; ``crd`` and ``cast`` say what there is; ``writing``,
``population`` and ``traffic`` write objects; ``trouble`` shows what happens without restow; ``truth`` reads etcd, and
``checks``, ``applying`` and ``endings`` judge. Those three share no code with the migrator, so that they cannot agree
with it by accident.
"""
