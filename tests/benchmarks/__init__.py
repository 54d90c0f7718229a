"""What Bitong costs, each number beside a floor measured in the same run: `python -m tests.benchmarks [--quick] [TABLE…]`.

Ratios within one table are the result. Absolute times belong to the machine that is described first, and on a machine that
is not quiet they move by a third. Nothing here fails because something was slow.
"""
