//! A quorum of stores in memory.
