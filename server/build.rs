//! How the binary is linked.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if loader_knows_packed_relocations() {
        // Six megabytes of relocations become a tenth: every start reads them, and they stay in memory.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether this machine is what the binary is for, and its loader takes DT_RELR: glibc from 2.36 on.
fn loader_knows_packed_relocations() -> bool {
    let is_native = std::env::var("HOST") == std::env::var("TARGET");
    let is_glibc = std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu");
    let version = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = version.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let minor = version.and_then(|text| text.trim().strip_prefix("glibc 2.")?.parse::<u32>().ok());
    is_native && is_glibc && minor.is_some_and(|minor| minor >= 36)
}
