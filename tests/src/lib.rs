//! Holds what tests more than one crate: the layers of the workspace in Rust, and beside it, in Python, the
//! streaming oracle, the end-to-end tests and the benches. The library itself is empty.
