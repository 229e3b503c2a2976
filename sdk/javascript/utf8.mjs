// UTF-8, both ways. QuickJS, which runs the component, has no TextEncoder and no TextDecoder.

/** The bytes of a text; half a surrogate pair becomes U+FFFD. */
export function encode(text) {
  const bytes = [];
  for (const character of text) {
    const code = character.codePointAt(0);
    const scalar = code >= 0xd800 && code <= 0xdfff ? 0xfffd : code;
    if (scalar < 0x80) {
      bytes.push(scalar);
    } else if (scalar < 0x800) {
      bytes.push(0xc0 | (scalar >> 6), 0x80 | (scalar & 63));
    } else if (scalar < 0x10000) {
      bytes.push(0xe0 | (scalar >> 12), 0x80 | ((scalar >> 6) & 63), 0x80 | (scalar & 63));
    } else {
      bytes.push(0xf0 | (scalar >> 18), 0x80 | ((scalar >> 12) & 63), 0x80 | ((scalar >> 6) & 63), 0x80 | (scalar & 63));
    }
  }
  return Uint8Array.from(bytes);
}

/** The text of some bytes, which the host has checked: they are UTF-8. */
export function decode(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at];
    const more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    let code = more === 0 ? first : first & (0x3f >> more);
    for (let next = 1; next <= more; next++) {
      code = (code << 6) | (bytes[at + next] & 63);
    }
    text += String.fromCodePoint(code);
    at += more + 1;
  }
  return text;
}
