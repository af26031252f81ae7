"""Standard rules: conversions that most projects need, so that ``pair`` becomes rare.

Each is a ``Lens`` whose functions are small frozen callables, or a group of simpler rules. They never fail. Null stays
null. A value of another type than the field's passes unchanged; so does a text with a template expression, which is not
filled in yet. A value that the other version cannot express is not shown there, and the stash keeps it.
"""
