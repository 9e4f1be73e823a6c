//! leadership
