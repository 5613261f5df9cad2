//! Real servers and processes, broken.
