// One SVG picture, written element by element. Colours come from classes, so that a page and a file share them and both
// follow light and dark.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cudal1::charts {

// What a chart is called, and what it says to those who do not see it. `id`: letters, digits and hyphens, unique in its
// page.
struct chart_text {
  std::string id, title, description;
};

enum class text_anchor { start, middle, end };

struct point {
  double x = 0, y = 0;
};

// Units are CSS pixels at the picture's own width. All text is escaped here; classes are the caller's constants.
class drawing {
 public:
  drawing(chart_text text, double width, double height);

  // `hover`: shown when the pointer rests on it; "" for none.
  void rectangle(point corner, double width, double height, std::string_view css_class, const std::string& hover = "");
  void line(point from, point to, std::string_view css_class);
  void path(const std::vector<point>& points, std::string_view css_class);
  void circle(point centre, double radius, std::string_view css_class, const std::string& hover = "");
  void label(point at, const std::string& text, text_anchor anchor, std::string_view css_class = "c-label");

  double width() const { return width_; }
  double height() const { return height_; }
  // An element with role=img, a title and a description, for a page that has chart_style().
  std::string svg() const;

 private:
  chart_text text_;
  double width_, height_;
  std::string body_;
};

// Rules for the classes of all charts: the colours of Okabe and Ito, which the colour-blind tell apart, and lines that
// also differ by their dashes. Variables of the page (--ink, --muted, --rule, --accent) are used where it has them.
std::string chart_style();
// A drawing's svg() as a file of its own, with its style and a background.
std::string standalone(const std::string& svg);

// Pictures that svg() made, one below the other in one.
std::string stacked(const chart_text& text, const std::vector<std::string>& pictures);

// Cut to so many characters, with an ellipsis.
std::string shortened(const std::string& text, std::size_t characters);

// About how wide a label is drawn.
double label_width(std::string_view text);
// The text, cut so that its label is about so wide.
std::string shortened_to_width(const std::string& text, double width);

}  // namespace cudal1::charts
