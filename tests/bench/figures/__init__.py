"""The figures of `tests/bench/bench`, by what they need: files and processes, the engine alone, a server, nothing at all."""
