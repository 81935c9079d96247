//! Tests of kernels against models that compute the whole answer again from all rows, after every epoch.

mod aggregate;
mod drive;
mod join;
mod notation;
mod top_n;
