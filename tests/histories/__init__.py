"""Histories of a CRD's life on two API servers, and a judge of every yes of ``restow ready`` in them."""
