//! The protocols, as states and messages.
