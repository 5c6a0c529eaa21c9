//! Documents: raw BSON, Extended JSON, comparison order, order-preserving key bytes.
