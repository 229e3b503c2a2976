//! Space above the WGS 84 ellipsoid: earth-centred coordinates (ECEF), straight distances, lines of sight

use super::Function;
use super::answers::Answer;
use super::places::{Source, Spot, finite, given, numbers, optional};
use std::fmt::Write;

/// Half the long axis, in metres, and the flattening: what WGS 84 is defined by.
const A: f64 = 6_378_137.0;
const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// Half the short axis.
const B: f64 = A * (1.0 - FLATTENING);
/// The square of the first eccentricity, and of the second.
const E2: f64 = FLATTENING * (2.0 - FLATTENING);
const E2_SECOND: f64 = E2 / (1.0 - E2);
/// Nearer to the centre than this, more than one latitude has a vertical through the point.
const CORE: f64 = 43_000.0;

/// In metres from the earth's centre: towards longitude 0 on the equator, towards longitude 90, towards the north pole.
type Position = [f64; 3];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "geodeticToEcef",
        signature: "geodeticToEcef(point, altitude) -> list<float64>",
        doc: "A point, as for `haversineKm`, and its altitude in metres above the WGS 84 ellipsoid as [x, y, z] in metres from the earth's centre: x towards longitude 0 on the equator, z towards the north pole. Null if one of them is null; an altitude that is not finite makes a bad row.",
        examples: &[
            ("geodeticToEcef('0,0', 0)", "[6378137.0, 0.0, 0.0]"),
            ("map(geodeticToEcef([90, 0], 1000), x -> round(x, 3))", "[0.0, 6379137.0, 0.0]"),
            ("map(geodeticToEcef('0,90', 0), x -> round(x, 3))", "[0.0, 0.0, 6356752.314]"),
            ("geodeticToEcef('0,0', null)", "null"),
        ],
        arity: (2, 2),
        bind: |mut args| {
            let point = Source::<Spot>::of(&mut args, 0)?;
            args.float(1)?;
            Ok(args.into_triple(move |row| {
                let altitude = finite(row.float(1), "altitude")?;
                Ok(point.read(row)?.map(|spot| to_ecef(&spot, altitude)))
            }))
        },
    },
    Function {
        name: "ecefToGeodetic",
        signature: "ecefToGeodetic(list [x, y, z]) -> list<float64>",
        doc: "Metres from the earth's centre, as `geodeticToEcef` gives them, as [longitude, latitude, altitude] on WGS 84. Null if one of the three is null. Another number of them, what is not finite, and points within 43 km of the centre, which have no one latitude, make a bad row.",
        examples: &[
            ("ecefToGeodetic([6378137, 0, 0])", "[0.0, 0.0, 0.0]"),
            ("map(ecefToGeodetic(geodeticToEcef('13.405,52.52', 34)), x -> round(x, 6))", "[13.405, 52.52, 34.0]"),
            ("ecefToGeodetic([null, 0, 0])", "null"),
            ("ecefToGeodetic([0, 0, 0])", "error"),
        ],
        arity: (1, 1),
        bind: |mut args| {
            numbers(&mut args, 0, "a list [x, y, z] of numbers")?;
            Ok(args.into_triple(|row| {
                let (Some(x), Some(y), Some(z), None) = (row.element(0, 0), row.element(0, 1), row.element(0, 2), row.element(0, 3)) else {
                    return Err("a position is a list of three numbers".to_string());
                };
                match (x, y, z) {
                    (Some(x), Some(y), Some(z)) => to_geodetic([x, y, z]).map(Some),
                    _ => Ok(None),
                }
            }))
        },
    },
    Function {
        name: "distance3dM",
        signature: "distance3dM(point, altitude, point, altitude) -> float64",
        doc: "The length in metres of the straight line between two points at their altitudes above the WGS 84 ellipsoid, through the earth if it is in the way. Where an altitude is null, the third value of its point counts, and without one 0. Points and bad rows as for `haversineKm`.",
        examples: &[
            ("distance3dM('0,0', 0, '0,0', 1500)", "1500.0"),
            ("distance3dM('0,0,200', null, [0, 0], null)", "200.0"),
            ("distance3dM('0,0', 0, '180,0', 0)", "12756274.0"),
            ("distance3dM(null, 0, '0,0', 0)", "null"),
        ],
        arity: (4, 4),
        bind: |mut args| {
            let (a, b) = (Source::<Spot>::of(&mut args, 0)?, Source::<Spot>::of(&mut args, 2)?);
            optional(&mut args, 1)?;
            optional(&mut args, 3)?;
            Ok(args.into_float(move |row| -> Answer<f64> {
                let (Some(a), Some(b)) = (a.read(row)?, b.read(row)?) else { return Ok(None) };
                let place = |spot: &Spot, at: usize| {
                    let altitude = given(row, at).or(spot.altitude).unwrap_or(0.0);
                    Ok::<_, String>(to_ecef(spot, finite(altitude, "altitude")?))
                };
                let (from, to) = (place(&a, 1)?, place(&b, 3)?);
                Ok(Some((to[0] - from[0]).hypot(to[1] - from[1]).hypot(to[2] - from[2])))
            }))
        },
    },
    Function {
        name: "groundStrike",
        signature: "groundStrike(observer, altitude, azimuth, elevation) -> string",
        doc: "Where a line of sight first meets the WGS 84 ellipsoid, as text `longitude,latitude` rounded to 6 decimals. It starts at the observer, a point as for `haversineKm`, at an altitude in metres; azimuth counts in degrees from north over east, elevation from the horizon, up to 90 upwards and -90 downwards. An observer on the ellipsoid strikes its own point. Null where the line misses, for an observer below the ellipsoid, and if an argument is null. Numbers that are not finite and elevations beyond 90 make a bad row.",
        examples: &[
            ("groundStrike('13.405,52.52', 10000, 0, -90)", "'13.405,52.52'"),
            ("groundStrike([0, 0], 1000, 90, -45)", "'0.008984,0'"),
            ("groundStrike([0, 0], 1000, 90, 10)", "null"),
            ("groundStrike('2,1', 0, 90, 10)", "'2,1'"),
            ("groundStrike('2,1', -5, 90, 10)", "null"),
            ("groundStrike('2,1', 10, 90, -91)", "error"),
        ],
        arity: (4, 4),
        bind: |mut args| {
            let observer = Source::<Spot>::of(&mut args, 0)?;
            for at in 1..args.len() {
                args.float(at)?;
            }
            Ok(args.into_text(move |row, out: &mut String| -> Answer<()> {
                let altitude = finite(row.float(1), "altitude")?;
                let (azimuth, elevation) = (finite(row.float(2), "azimuth")?, finite(row.float(3), "elevation")?);
                if elevation.abs() > 90.0 {
                    return Err(format!("an elevation of {elevation:?} is not one from -90 to 90"));
                }
                let Some(spot) = observer.read(row)? else { return Ok(None) };
                Ok(strike(&spot, altitude, azimuth, elevation).map(|(longitude, latitude)| {
                    let rounded = |degrees: f64| (degrees * 1e6).round() / 1e6 + 0.0;
                    let _ = write!(out, "{},{}", rounded(longitude), rounded(latitude));
                }))
            }))
        },
    },
];

fn to_ecef(spot: &Spot, altitude: f64) -> Position {
    let (longitude, latitude) = (spot.longitude.to_radians(), spot.latitude.to_radians());
    let normal = A / (1.0 - E2 * latitude.sin().powi(2)).sqrt();
    let out = (normal + altitude) * latitude.cos();
    [out * longitude.cos(), out * longitude.sin(), (normal * (1.0 - E2) + altitude) * latitude.sin()]
}

/// Bowring's iteration on the reduced latitude, which gains five digits and more with each step.
fn to_geodetic([x, y, z]: Position) -> Result<Position, String> {
    let out = x.hypot(y);
    let distance = out.hypot(z);
    if !distance.is_finite() {
        return Err("a position has three finite numbers".to_string());
    }
    if distance < CORE {
        return Err("a point so near to the earth's centre has no latitude".to_string());
    }
    let mut reduced = (z * A).atan2(out * B);
    let mut latitude = reduced;
    for _ in 0..8 {
        latitude = (z + E2_SECOND * B * reduced.sin().powi(3)).atan2(out - E2 * A * reduced.cos().powi(3));
        let next = ((1.0 - FLATTENING) * latitude.sin()).atan2(latitude.cos());
        if next == reduced {
            break;
        }
        reduced = next;
    }
    let altitude = out * latitude.cos() + z * latitude.sin() - A * (1.0 - E2 * latitude.sin().powi(2)).sqrt();
    let latitude = latitude.to_degrees().clamp(-90.0, 90.0);
    Ok([y.atan2(x).to_degrees(), latitude, altitude])
}

/// Longitude and latitude of the first point of the ellipsoid on a ray.
fn strike(spot: &Spot, altitude: f64, azimuth: f64, elevation: f64) -> Option<(f64, f64)> {
    if altitude <= 0.0 {
        return (altitude == 0.0).then_some((spot.longitude, spot.latitude));
    }
    let (longitude, latitude) = (spot.longitude.to_radians(), spot.latitude.to_radians());
    let (azimuth, elevation) = (azimuth.to_radians(), elevation.to_radians());
    let (east, north, up) = (azimuth.sin() * elevation.cos(), azimuth.cos() * elevation.cos(), elevation.sin());
    let level = up * latitude.cos() - north * latitude.sin();
    let way = [
        level * longitude.cos() - east * longitude.sin(),
        level * longitude.sin() + east * longitude.cos(),
        north * latitude.cos() + up * latitude.sin(),
    ];
    let from = to_ecef(spot, altitude);
    // In units of the axes the ellipsoid is a sphere of radius 1, which the ray meets where a·t² + 2·b·t + c = 0.
    let units = [A, A, B];
    let scaled = |v: Position| [v[0] / units[0], v[1] / units[1], v[2] / units[2]];
    let dot = |u: Position, v: Position| u[0] * v[0] + u[1] * v[1] + u[2] * v[2];
    let (origin, step) = (scaled(from), scaled(way));
    let (a, b, c) = (dot(step, step), dot(origin, step), dot(origin, origin) - 1.0);
    let root = b * b - a * c;
    if c <= 0.0 {
        // Nearer to the surface than the numbers can tell.
        return Some((spot.longitude, spot.latitude));
    }
    if b >= 0.0 || root.is_nan() || root < 0.0 {
        return None;
    }
    // The nearer root, without the difference of two numbers that are almost the same.
    let t = c / (root.sqrt() - b);
    let [x, y, z] = [0, 1, 2].map(|at| from[at] + t * way[at]);
    let latitude = z.atan2((1.0 - E2) * x.hypot(y));
    Some((y.atan2(x).to_degrees(), latitude.to_degrees()))
}
