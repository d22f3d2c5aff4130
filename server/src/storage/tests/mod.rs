//! The engine as a whole, on the lying disk and on the real one.

mod basics;

mod harness;

mod watching;
