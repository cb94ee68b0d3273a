// SPDX-License-Identifier: Apache-2.0

//! The manifest, for plugins that are built without CMake. `tenon_add_plugin()` writes it itself.

use crate::abi::TENON_MANIFEST_TYPE;

/// Embeds the manifest (manifest.h) from its lines. The lines "abi" and "lane" are added. Use it
/// once per plugin:
///
/// ```ignore
/// tenon::manifest!("id=com.example.focal", "version=1.0.0", "component=loss:focal");
/// ```
#[macro_export]
macro_rules! manifest {
    ($($line:literal),+ $(,)?) => {
        const _: () = {
            const LINES: &[&[u8]] = &[
                b"abi=",
                $crate::abi::TENON_ABI_STRING.as_bytes(),
                b"\nlane=stable\n",
                $($line.as_bytes(), b"\n"),+
            ];
            #[used]
            #[link_section = ".note.tenon"]
            static NOTE: $crate::Note<{ $crate::Note::<0>::text_size(LINES) }> =
                $crate::Note::new(LINES);
        };
    };
}

/// The ELF note of a manifest, with N bytes of text.
#[repr(C, align(4))]
pub struct Note<const N: usize> {
    name_size: u32,
    text_size: u32,
    kind: u32,
    name: [u8; 8],
    text: [u8; N],
}

impl<const N: usize> Note<N> {
    /// The size of the text that parts make together, with NUL, as a multiple of 4 bytes.
    pub const fn text_size(parts: &[&[u8]]) -> usize {
        let (mut size, mut i) = (1, 0);
        while i < parts.len() {
            size += parts[i].len();
            i += 1;
        }
        (size + 3) / 4 * 4
    }

    /// The note with this text. Bytes after the text are NUL.
    pub const fn new(parts: &[&[u8]]) -> Self {
        let (mut text, mut at, mut i) = ([0; N], 0, 0);
        while i < parts.len() {
            let mut k = 0;
            while k < parts[i].len() {
                text[at] = parts[i][k];
                at += 1;
                k += 1;
            }
            i += 1;
        }
        let (name, text_size) = (*b"tenon\0\0\0", at as u32 + 1);
        Note { name_size: 6, text_size, kind: TENON_MANIFEST_TYPE, name, text }
    }
}
