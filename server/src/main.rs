mod pg;
fn main(){}
