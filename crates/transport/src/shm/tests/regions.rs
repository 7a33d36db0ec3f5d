//! Remote memory: both ways, both engines, lists, protection, revocation, mapping.
