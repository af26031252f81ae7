"""Rules in the cluster: ``ConversionRules`` objects pass gates until every replica converts by them.

Every replica serves, and one of them leads:

- the leader takes each object through the gates in their order (``gates``): analyzed against the live CRD, rehearsed
  on every live object, compiled and served by every replica, wired into the CRD;
- an object that passed the first two gates becomes a revision in a ConfigMap (``revisions``), from which every replica
  compiles it. A wrong change never gets there, and after a restart the replicas find the last good revision there;
- a replica (``replica``) reports in the same ConfigMap which revisions it has compiled and which one it serves, and
  renews a Lease of its own (``members``), so that the leader knows which replicas to wait for. One that cannot compile
  a kind is not ready while another one can (``peers``);
- the leader reports each gate, and each right that it lacks, in the object's status (``statuses``).
"""
