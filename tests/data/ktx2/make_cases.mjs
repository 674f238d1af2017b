// Makes the cases of this folder anew: `npm install ktx2-encoder@0.6.0 three@0.187.0 ktx-parse@2.0.0`, then
// `node make_cases.mjs`, with this file beside node_modules. Encoder: ktx2-encoder. Reference pixels: three's
// basis_transcoder, target RGBA32. Pictures are computed here; nothing is read.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { crc32, deflateSync } from "node:zlib";
import { encodeToKTX2 } from "ktx2-encoder";
import { read, write } from "ktx-parse";

const RGBA32 = 13;
const folder = new URL("./node_modules/three/examples/jsm/libs/basis/", import.meta.url);
const scope = { exports: {} };
new Function("module", "exports", "require", "__dirname", "__filename",
  readFileSync(new URL("basis_transcoder.js", folder), "utf8"))(
  scope, scope.exports, createRequire(import.meta.url), ".", "basis_transcoder.js");
const basis = await scope.exports({ wasmBinary: readFileSync(new URL("basis_transcoder.wasm", folder)) });
basis.initializeBasis();

function reference(bytes) {
  const file = new basis.KTX2File(bytes);
  if (!file.isValid() || !file.startTranscoding()) throw new Error("not valid");
  const out = new Uint8Array(file.getImageTranscodedSizeInBytes(0, 0, 0, RGBA32));
  if (!file.transcodeImage(out, 0, 0, 0, RGBA32, 0, -1, -1)) throw new Error("not transcoded");
  const got = { width: file.getWidth(), height: file.getHeight(), data: out };
  file.close();
  file.delete();
  return got;
}

function png({ width, height, data }) {
  const rows = Buffer.alloc(height * (1 + 4 * width));
  for (let y = 0; y < height; y++) rows.set(data.subarray(4 * width * y, 4 * width * (y + 1)), y * (1 + 4 * width) + 1);
  const chunk = (name, body) => {
    const all = Buffer.concat([Buffer.from(name), body]);
    const ends = [Buffer.alloc(4), Buffer.alloc(4)];
    ends[0].writeUInt32BE(body.length);
    ends[1].writeUInt32BE(crc32(all));
    return Buffer.concat([ends[0], all, ends[1]]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 6, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head),
    chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

let seed = 1;  // a linear congruential generator, so that the pictures are the same each time
const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) >>> 24;

function picture(width, height, texel) {
  const data = new Uint8Array(4 * width * height);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) data.set(texel(x, y), 4 * (y * width + x));
  return { width, height, data };
}
const ramps = (x, y) => [5 * x & 255, 7 * y & 255, x * y & 255, 255];
const patches = (x, y) => (x >> 3) + (y >> 3) & 1 ? [random(), random(), random(), 255] : [200, 7 * y & 255, 90, 255];
const holes = (x, y) => [...patches(x, y).slice(0, 3), (x - 25) ** 2 + (y - 17) ** 2 < 150 ? 8 * x & 255 : x & 8 ? 255 : 0];
const grey = (x, y) => Array(3).fill(x * y & 255).concat(255);
const flat = (x, y) => (y < 40 ? [30, 120, 60, 255] : [200, 190, 30, 255]);

async function encode(image, options) {
  return encodeToKTX2(new Uint8Array(1), { imageDecoder: async () => image, isKTX2File: true, generateMipmap: false,
    isUASTC: false, isSetKTX2SRGBTransferFunc: true, needSupercompression: false, ...options });
}

const cases = {
  etc1s_ramps: await encode(picture(37, 22, ramps), { qualityLevel: 255, compressionLevel: 1 }),
  etc1s_patches: await encode(picture(128, 96, patches), { qualityLevel: 128, compressionLevel: 2 }),
  etc1s_alpha: await encode(picture(50, 34, holes), { qualityLevel: 128, compressionLevel: 2 }),
  etc1s_grey: await encode(picture(64, 64, grey), { qualityLevel: 200, compressionLevel: 2 }),
  etc1s_flat_mips: await encode(picture(96, 80, flat), { qualityLevel: 128, compressionLevel: 2, generateMipmap: true }),
  etc1s_dot: await encode(picture(1, 1, ramps), { qualityLevel: 128, compressionLevel: 2 }),
  uastc_ramps: await encode(picture(37, 22, ramps), { isUASTC: true, uastcLDRQualityLevel: 2 }),
  uastc_alpha_zstd: await encode(picture(50, 34, holes), { isUASTC: true, uastcLDRQualityLevel: 2,
    needSupercompression: true, generateMipmap: true }),
  uastc_narrow: await encode(picture(3, 9, holes), { isUASTC: true, uastcLDRQualityLevel: 2 }),
};

// Blocks at random of each mode (a row of blocks), with each pattern in turn: [code, bits, first pattern bit, patterns].
const modes = [[1, 4], [53, 6], [29, 5, 20, 30], [3, 5, 20, 11], [19, 5, 20, 30], [11, 5], [27, 5], [7, 5, 20, 19],
  [23, 5], [15, 5, 28, 30], [2, 3], [0, 2], [6, 3], [31, 5], [13, 5], [5, 7], [21, 6, 29, 30], [37, 6], [9, 4]];
const blocks = new Uint8Array(16 * 30 * modes.length);
modes.forEach(([code, bits, first, patterns], row) => {
  for (let k = 0; k < 30; k++) {
    let value = 0n;
    for (let i = 0; i < 16; i++) value = value << 8n | BigInt(random());
    value = value >> BigInt(bits) << BigInt(bits) | BigInt(code);
    if (patterns) {
      const width = patterns === 11 ? 4n : 5n;
      const at = BigInt(first);
      value = value & ~(((1n << width) - 1n) << at) | BigInt(k % patterns) << at;
    }
    for (let i = 0; i < 16; i++) blocks[16 * (30 * row + k) + i] = Number(value >> BigInt(8 * i) & 255n);
  }
});
const file = read(await encode(picture(120, 76, flat), { isUASTC: true }));
file.levels[0].levelData = blocks;
file.levels[0].uncompressedByteLength = blocks.length;
cases.uastc_modes = write(file, { keepWriter: true });

for (const [name, bytes] of Object.entries(cases)) {
  writeFileSync(`${name}.ktx2`, bytes);
  writeFileSync(`${name}.png`, png(reference(bytes)));
}
