// SPDX-License-Identifier: MIT
#include "painter.h"

#include "glyphs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace ddprun::digits {
namespace {

constexpr int kStepsPerSpan = 5;        // line segments between two points of a stroke
constexpr double kGlyphHeight = 21;     // pixels of an unscaled glyph
constexpr double kSmudgeChance = 0.25;  // for a stray mark beside the digit

using Canvas = std::array<float, kPixels>;

Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double k, Point a) { return {k * a.x, k * a.y}; }
double dot(Point a, Point b) { return a.x * b.x + a.y * b.y; }
bool same(Point a, Point b) { return a.x == b.x && a.y == b.y; }

// A smooth displacement of the plane, so that strokes that touch still touch: the elastic wobble of a hand.
class Wobble {
 public:
  Wobble(double size, RandomStream& random) {
    for (auto& wave : waves_) {
      wave = {{random.uniform(-1.3, 1.3), random.uniform(-1.3, 1.3)},
              random.uniform(0, 1),
              {size * random.normal(), size * random.normal()}};
    }
  }

  Point operator()(Point p) const {
    for (const auto& wave : waves_) {
      p = p + std::sin(2 * std::numbers::pi * (dot(wave.frequency, p) + wave.phase)) * wave.amplitude;
    }
    return p;
  }

 private:
  struct Wave {
    Point frequency;
    double phase = 0;
    Point amplitude;
  };
  std::array<Wave, 2> waves_;
};

// Maps the glyph's box to pixels.
class Affine {
 public:
  Affine(double warp, RandomStream& random) {
    const double turn = warp * std::clamp(0.15 * random.normal(), -0.4, 0.4);
    const double slant = warp * std::clamp(0.05 + 0.18 * random.normal(), -0.45, 0.5);
    const double width = kGlyphHeight * (1 - warp * random.uniform(-0.1, 0.32));
    const double height = kGlyphHeight * (1 - warp * random.uniform(-0.08, 0.22));
    const double c = std::cos(turn), s = std::sin(turn);
    x_ = {c * width, -(s + c * slant) * height};
    y_ = {s * width, (c - s * slant) * height};
    shift_ = {kSide / 2.0 + warp * random.uniform(-2.2, 2.2), kSide / 2.0 + warp * random.uniform(-2, 2)};
  }

  Point operator()(Point p) const {
    const Point centred = p - Point{0.5, 0.5};
    return shift_ + Point{dot(x_, centred), dot(y_, centred)};
  }

 private:
  Point x_, y_, shift_;
};

// Returns a point of the Catmull-Rom curve between p[1] and p[2], 0 <= t <= 1.
Point curve(const std::array<Point, 4>& p, double t) {
  const Point linear = p[2] - p[0];
  const Point square = 2 * p[0] - 5 * p[1] + 4 * p[2] - p[3];
  const Point cubic = 3 * (p[1] - p[2]) + p[3] - p[0];
  return p[1] + 0.5 * t * (linear + t * (square + t * cubic));
}

Stroke smooth(const Stroke& points) {
  const int last = static_cast<int>(points.size()) - 1;
  const bool closed = same(points.front(), points.back());
  const auto at = [&](int i) {
    if (i < 0) return closed ? points[static_cast<size_t>(last - 1)] : 2 * points[0] - points[1];
    if (i <= last) return points[static_cast<size_t>(i)];
    return closed ? points[1] : 2 * points.back() - points[static_cast<size_t>(last - 1)];
  };
  Stroke line{points.front()};
  for (int i = 0; i < last; ++i) {
    const std::array<Point, 4> around = {at(i - 1), at(i), at(i + 1), at(i + 2)};
    for (int step = 1; step <= kStepsPerSpan; ++step) line.push_back(curve(around, double(step) / kStepsPerSpan));
  }
  return line;
}

struct Pen {
  double radius = 1;  // pixels
  double ink = 1;
};

// Draws a line from a to b; ink is no darker where the pen passes twice.
void draw_line(Point a, Point b, const Pen& pen, Canvas& canvas) {
  const double reach = pen.radius + 0.5;
  const auto pixel = [](double coordinate) { return std::clamp(static_cast<int>(coordinate), 0, kSide - 1); };
  const Point way = b - a;
  const double inverse_length2 = 1 / std::max(dot(way, way), 1e-12);
  for (int row = pixel(std::min(a.y, b.y) - reach); row <= pixel(std::max(a.y, b.y) + reach); ++row) {
    for (int column = pixel(std::min(a.x, b.x) - reach); column <= pixel(std::max(a.x, b.x) + reach); ++column) {
      const Point from_a = Point{column + 0.5, row + 0.5} - a;
      const Point away = from_a - std::clamp(dot(from_a, way) * inverse_length2, 0.0, 1.0) * way;
      const double distance2 = dot(away, away);
      if (distance2 >= reach * reach) continue;
      const double cover = std::min(reach - std::sqrt(distance2), 1.0);
      float& dot_of_ink = canvas[static_cast<size_t>(row * kSide + column)];
      dot_of_ink = std::max(dot_of_ink, static_cast<float>(pen.ink * cover));
    }
  }
}

// The pen presses harder at one end: `taper` is the change of its radius along the stroke.
void draw_stroke(const Stroke& line, Pen pen, double taper, Canvas& canvas) {
  const double radius = pen.radius;
  const double steps = static_cast<double>(line.size() - 1);
  for (size_t i = 1; i < line.size(); ++i) {
    pen.radius = radius * (1 + taper * (static_cast<double>(i) / steps - 0.5));
    draw_line(line[i - 1], line[i], pen, canvas);
  }
}

void draw_glyph(const Glyph& glyph, double warp, RandomStream& random, Canvas& canvas) {
  const Wobble wobble(0.028 * warp, random);
  const Affine place(warp, random);
  const Pen pen{.radius = random.uniform(0.65, 1.6), .ink = random.uniform(0.75, 1)};
  for (const auto& stroke : glyph) {
    Stroke written;
    for (const Point point : stroke) {
      const Point slip = same(point, stroke.front()) || same(point, stroke.back())
                             ? Point{}
                             : 0.016 * warp * Point{random.normal(), random.normal()};
      written.push_back(place(wobble(point + slip)));
    }
    draw_stroke(smooth(written), pen, random.uniform(-0.4, 0.4), canvas);
  }
}

void draw_smudge(RandomStream& random, Canvas& canvas) {
  const Point start{random.uniform(0, kSide), random.uniform(0, kSide)};
  const Point way{3 * random.normal(), 3 * random.normal()};
  draw_line(start, start + way, {.radius = random.uniform(0.3, 0.9), .ink = random.uniform(0.2, 0.8)}, canvas);
}

// The sum of four bytes is close enough to a normal distribution, and saves 784 logarithms.
float grain(RandomStream& random) {
  const uint32_t bits = random.next();
  const auto sum = static_cast<float>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24));
  constexpr float kMean = 510, kDeviation = 147.8F;
  return (sum - kMean) / kDeviation;
}

}  // namespace

void paint_digit(int digit, const Hand& hand, RandomStream& random, std::span<uint8_t, kPixels> picture) {
  Canvas canvas{};
  const auto styles = styles_of(digit);
  draw_glyph(styles[random.below(styles.size())], hand.warp, random, canvas);
  if (random.uniform() < kSmudgeChance) draw_smudge(random, canvas);
  for (size_t i = 0; i < picture.size(); ++i) {
    const float ink = canvas[i] + static_cast<float>(hand.noise) * grain(random);
    picture[i] = static_cast<uint8_t>(std::clamp(255 * ink, 0.0F, 255.0F));
  }
}

}  // namespace ddprun::digits
