"""The demo: the whole life of an API version on a real API server, from its first object to its removal.

``journey`` tells the story; ``crd`` and ``cast`` say what there is, ``population``, ``traffic``, ``reapply`` and
``endings`` write objects, ``trouble`` shows what happens without restow, ``truth`` reads etcd and ``checks`` judges. Truth
and checks share no code with the migrator, so that they cannot agree with it by accident.
"""
