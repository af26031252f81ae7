"""Standard rules: conversions that most projects need, so that ``pair`` becomes rare.

Each is a ``Lens`` whose functions are small frozen callables, or a group of simpler rules. They never fail: null stays
null, a value of another type than the field's passes unchanged, and so does a text with a template expression, which
is not filled in yet. What the other version cannot say is not shown there, and the stash keeps it.
"""
