//! The page with an inspector in memory.
