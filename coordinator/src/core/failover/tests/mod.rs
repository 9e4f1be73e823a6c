mod examples;
mod model;
mod parity;
mod properties;
