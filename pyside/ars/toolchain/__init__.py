"""Compiling simulators against the libars of this package: flags, the compiler's command line, and the examples."""
