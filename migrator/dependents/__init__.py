"""Objects whose ownerReferences name a version of a CRD, looked for in all resources of the cluster.

The garbage collector resolves an ownerReference at the version that it names, so these objects depend on that version
being served (design, fact 16). ``search.find_dependents`` looks, ``found`` says what was found, ``resources`` which
resources there are.
"""
